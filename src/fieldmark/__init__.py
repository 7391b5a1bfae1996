"""fieldmark measures how well any vision model does real biology."""
