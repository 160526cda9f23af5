"""For all tests."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # how long a case takes says nothing on a busy machine
settings.load_profile("untimed")
