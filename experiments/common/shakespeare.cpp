#include "experiments/common/shakespeare.h"

namespace folio::experiments {

Shakespeare load_shakespeare(double validation_fraction, double test_fraction) {
  const data::Corpus corpus = data::load_corpus("tinyshakespeare");
  Shakespeare shakespeare(data::CharTokenizer::from_text(corpus.text, corpus.path.string()));
  shakespeare.vocab_size = shakespeare.tokenizer.vocab_size() - 1;  // without <|endoftext|>, the last token
  shakespeare.tokens = shakespeare.tokenizer.encode(corpus.text);
  shakespeare.splits = data::split_tokens(shakespeare.tokens, validation_fraction, test_fraction);
  return shakespeare;
}

}  // namespace folio::experiments
