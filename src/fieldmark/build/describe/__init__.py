"""Taxa → Wikipedia pages → sentences about what can be seen."""
