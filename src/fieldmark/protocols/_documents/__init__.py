"""How are the documents of a task in lmms-eval's form asked, and how do answers become scores?"""
