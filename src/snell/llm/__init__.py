"""Language models: families, tokenizer, chat templates, sampling and generation."""
