"""viser's server behind a guard that limits who may connect and what a page may send."""
