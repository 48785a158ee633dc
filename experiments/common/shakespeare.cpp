#include "experiments/common/shakespeare.h"

#include "data/char_tokenizer.h"

namespace folio::experiments {

Shakespeare load_shakespeare(double validation_fraction, double test_fraction) {
  const data::Corpus corpus = data::load_corpus("tinyshakespeare");
  const data::CharTokenizer tokenizer = data::CharTokenizer::from_text(corpus.text, corpus.path.string());
  Shakespeare shakespeare;
  shakespeare.vocab_size = tokenizer.vocab_size() - 1;  // <|endoftext|> is last, and not in the text
  shakespeare.tokens = tokenizer.encode(corpus.text);
  shakespeare.splits = data::split_tokens(shakespeare.tokens, validation_fraction, test_fraction);
  return shakespeare;
}

}  // namespace folio::experiments
