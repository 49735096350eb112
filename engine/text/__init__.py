"""Text and tokens: tokenizer, chat template, incremental detokenizer, as the model's file defines them."""

from ebbtide.engine.text.answers import AnswerMemory
from ebbtide.engine.text.chat_encoding import encode_chat
from ebbtide.engine.text.chat_template import ChatTemplate
from ebbtide.engine.text.detokenizer import Detokenizer
from ebbtide.engine.text.tokenizer import Tokenizer
from ebbtide.engine.text.vocabulary import Vocabulary, read_vocabulary

__all__ = [
    "AnswerMemory",
    "ChatTemplate",
    "Detokenizer",
    "Tokenizer",
    "Vocabulary",
    "encode_chat",
    "read_vocabulary",
]
