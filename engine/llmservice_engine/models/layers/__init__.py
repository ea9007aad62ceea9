"""What decoders are put together from. Every weight comes from a ``linear.Maker``; ``traits`` says what differs."""
