#include "experiments/common/methods.h"

#include <torch/nn/utils/clip_grad.h>

#include <ctime>

#include "data/batches.h"
#include "train/step/evaluate.h"

namespace folio::experiments {

train::TrainConfig config_of_run(train::TrainConfig setting, double lr, uint64_t seed, int64_t steps) {
  setting.lr = lr;
  setting.seed = seed;
  setting.steps = setting.eval_every = steps;
  return setting;
}

std::vector<double> seconds_per_step(const Shakespeare& text, std::vector<Running>& models, int rounds) {
  const train::TrainConfig& c = models.front().config;
  std::vector<std::vector<double>> seconds(models.size());
  const data::BatchSampler batches(text.splits.train, c.batch_size, c.window, c.seed);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < models.size(); ++i) {
      Running& it = models[i];
      std::vector<torch::Tensor> parameters = it.model->parameters();
      std::erase_if(parameters, [](const torch::Tensor& p) { return !p.requires_grad(); });
      const std::clock_t begin = std::clock();  // CPU time, which other programs affect little
      for (int64_t step = 0; step < c.steps; ++step) {
        const auto batch = train::to_tensors(batches.batch(static_cast<uint64_t>(round * c.steps + step)), torch::kCPU);
        for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
        const torch::Tensor loss = it.model->loss(batch.inputs_BT, batch.targets_BT);
        (it.objective ? it.objective(loss) : loss).backward();
        torch::nn::utils::clip_grad_norm_(parameters, c.clip);
        it.update(it.config.lr);
      }
      seconds[i].push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / static_cast<double>(c.steps));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_model : seconds) {
    std::ranges::sort(of_model);
    medians.push_back(of_model[of_model.size() / 2]);
  }
  return medians;
}

}  // namespace folio::experiments
