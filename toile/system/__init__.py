"""The mechanical system: terms, their assembly into forces and a matrix, and all contacts of a scene."""
