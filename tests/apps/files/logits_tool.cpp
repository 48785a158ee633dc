// logits_tool MODEL.gguf ID...: prints the engine's logits after each token, as one JSON array of arrays, with enough
// digits to reproduce the bits.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/formats/model_files.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/runner.h"

int main(int argc, char** argv) {
  using namespace folio;
  try {
    const core::StoredModel model = core::read_model(argc > 1 ? argv[1] : "");
    infer::Cpu cpu({.n_threads = 1});
    infer::Runner runner(model, cpu);
    const auto sequence = runner.cache().add_sequence();
    std::vector<infer::Row> rows;
    for (int i = 2; i < argc; ++i) {
      const std::string_view text = argv[i];
      int32_t id = -1;
      std::from_chars(text.data(), text.data() + text.size(), id);
      rows.push_back({.token = id, .sequence = sequence, .position = i - 2, .wants_logits = true});
    }
    const auto vocab = static_cast<size_t>(model.config.vocab_size);
    const std::span<float> logits = runner.forward(rows).logits;
    nlohmann::json all = nlohmann::json::array();
    for (size_t row = 0; row < rows.size(); ++row) {
      all.push_back(logits.subspan(row * vocab, vocab));
    }
    fmt::print("{}\n", all.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "logits_tool: {}\n", error.what());
    return 1;
  }
}
