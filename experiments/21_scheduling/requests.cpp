#include "experiments/21_scheduling/requests.h"

#include "experiments/common/readers_model.h"
#include "infer/cpu/cpu.h"

namespace folio::experiments {

std::vector<infer::Request> requests(const core::StoredModel& model, uint64_t seed) {
  infer::Cpu cpu({.n_threads = 1});
  infer::Engine engine(model, cpu);
  const auto text = [&](size_t n, uint64_t number) {
    infer::Request request{.prompt = {0}};  // token 0 is a newline
    request.options.max_tokens = static_cast<int64_t>(n);
    request.options.sampler.seed = 100 * seed + number;
    return n == 0 ? std::vector<int32_t>{} : completed(engine, {request})[0].tokens;
  };
  std::vector<infer::Request> requests;
  for (const Arrival& arrival : kTrace) {
    const uint64_t number = 1 + requests.size();
    infer::Request request{.prompt = text(arrival.n_instructions, 0)};
    const std::vector<int32_t> own = text(arrival.n_prompt - arrival.n_instructions, number);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    request.options.max_tokens = arrival.n_tokens;
    request.options.sampler.seed = 100 * seed + number;
    if (arrival.likeliest) request.options.sampler.temperature = 0.0F;
    requests.push_back(request);
  }
  return requests;
}

std::vector<std::vector<int32_t>> texts_alone(const core::StoredModel& model,
                                              const std::vector<infer::Request>& requests) {
  std::vector<std::vector<int32_t>> texts;
  for (const infer::Request& request : requests) {
    infer::Cpu cpu({.n_threads = 1});
    infer::Engine engine(model, cpu);  // a new engine, so that no prefix is cached
    texts.push_back(completed(engine, {request})[0].tokens);
  }
  return texts;
}

}  // namespace folio::experiments
