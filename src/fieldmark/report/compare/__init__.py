"""`fieldmark compare`: two models item by item, and our scores beside published ones."""
