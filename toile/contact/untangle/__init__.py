"""Untangling: cloth that starts with intersections is moved apart."""
