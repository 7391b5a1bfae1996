"""Mock chat server: an OpenAI-shaped endpoint on loopback, and how it answers."""
