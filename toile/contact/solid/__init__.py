"""Contacts between particles and solids, as constraints."""
