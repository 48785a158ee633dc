// One forward(): what is asked for is read and checked before anything is computed or written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "infer/engine/request.h"
#include "infer/interfaces/faster_transformer.h"
#include "infer/interfaces/faster_transformer_tensors.h"

namespace folio::infer::faster_transformer {

class Call {
 public:
  /// Reads and checks. Throws core::Error as Llama::forward() does.
  Call(Llama& model, TensorMap& outputs, const TensorMap& inputs);
  /// Computes, writes the outputs, and leaves the session as it is then.
  void run();

 private:
  // One text of the batch.
  struct Text {
    std::vector<int32_t> tokens{};  ///< those before it in the session, and its input_ids
    size_t n_hidden = 0;            ///< of them a start_id that is not part of the output
    size_t most = 0;                ///< tokens of the output
    int32_t end_id = 0;             ///< behind the text's end
    GenerateOptions options{};

    [[nodiscard]] size_t n_shown() const { return tokens.size() - n_hidden; }
    [[nodiscard]] size_t n_new() const { return most - n_shown(); }
  };

  struct Beam {
    std::vector<int32_t> tokens{};  ///< generated
    double cum_log_prob = 0.0;
    std::vector<double> log_probs{};  ///< of each token, if they are wanted
  };

  void read_output_sizes();
  void read_texts();
  void read_options();
  void read_sampler();
  void read_words();
  void check_outputs();
  [[nodiscard]] const Tensor* output(std::string_view name) const;
  [[nodiscard]] const Tensor& required_output(std::string_view name) const;

  void sample();
  void search();
  void score(const Text& text, Beam& beam);
  void write() const;
  void keep_session();

  Llama& model_;
  TensorMap& outputs_;
  Inputs inputs_;
  const core::StoredModel& file_;
  size_t n_texts_ = 0;
  size_t width_ = 0;
  size_t max_input_ = 0;  ///< of input_ids
  size_t length_ = 0;     ///< of output_ids
  size_t most_new_ = 0;   ///< tokens that a text may get
  bool continues_ = false;
  std::optional<size_t> session_length_{};
  bool wants_cum_log_probs_ = false;
  bool wants_log_probs_ = false;
  std::vector<Text> texts_;
  std::vector<std::vector<Beam>> results_;  ///< of each text its beams, the best first
};

}  // namespace folio::infer::faster_transformer
