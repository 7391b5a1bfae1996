"""Commands about data, tasks and models: what is there, is it sound, where does it come from?"""
