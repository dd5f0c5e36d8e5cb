"""Corrections of velocity or position after an integrator: one file each."""
