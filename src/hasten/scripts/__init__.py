"""What can be learnt about a user's script without training it: its files, what it asks for, our folder for
it.
"""
