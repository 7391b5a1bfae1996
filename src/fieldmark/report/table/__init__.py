"""`fieldmark table`: scores as text, their order, slices of them, and the notes under them."""
