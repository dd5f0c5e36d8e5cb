"""Cloth on cloth: who may meet whom, nearest points, times of impact, impulses, and an audit of the result."""
