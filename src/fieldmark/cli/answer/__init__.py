"""Commands that get an answer: which model is good at this?"""
