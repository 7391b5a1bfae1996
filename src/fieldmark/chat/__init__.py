"""Messages to answers: how multimodal language models are asked, at what cost."""
