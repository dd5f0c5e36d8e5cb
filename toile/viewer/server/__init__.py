"""viser's server, guarded: who may connect and what a page may send."""
