"""What is on the disk: which photo has which label, what does it look like, what is wrong?"""
