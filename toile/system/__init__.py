"""The mechanical system: terms, their assembly into forces and a matrix."""
