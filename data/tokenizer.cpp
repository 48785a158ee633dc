#include "data/tokenizer.h"

#include "core/error.h"

namespace folio::data {

core::GgufMetadata Tokenizer::to_gguf() const { core::fail("a {} tokenizer cannot be written to a GGUF file", kind()); }

void Tokenizer::write_hf(const std::filesystem::path& directory) const {
  core::fail("{}: a {} tokenizer cannot be written as tokenizer.json", directory.string(), kind());
}

}  // namespace folio::data
