"""Text to tokens and back: chat template, tokenizer, incremental detokenizer, stop strings. No torch.

``codec.Codec`` is the whole of it; ``api`` speaks to nothing else here.
"""
