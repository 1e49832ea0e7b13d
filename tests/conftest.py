"""What all tests share."""

from hypothesis import settings

# A slow or busy machine is no failure.
settings.register_profile("cordwood", deadline=None)
settings.load_profile("cordwood")
