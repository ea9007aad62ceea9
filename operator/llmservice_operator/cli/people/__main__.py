"""``python -m llmservice_operator.cli.people``."""

from llmservice_operator.cli.people import main

if __name__ == "__main__":
    main()
