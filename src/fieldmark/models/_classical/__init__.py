"""Measurements of pictures without a network, and the linear image–text model on top of them."""
