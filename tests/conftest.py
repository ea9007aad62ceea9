"""What holds for every test."""

from hypothesis import HealthCheck, settings

# A machine that is shared is slow now and then: that says nothing about what is tested.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")
