"""``/v1/responses``: OpenAI's newer shape of a chat. Nothing is stored: each request brings its whole input."""
