#include "train/step/galore.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/train/step/optimized.h"

namespace folio::train {
namespace {

using test::Optimized;

TEST(GaLore, KeepsLowRankMomentsAndAdamWForTheRest) {
  for (const int64_t rank : {6, 1000}) {   // 1000 is limited to a matrix's smaller side
    TrainConfig c = test::small_config();  // matrices of [32, 32], [16, 32], [48, 32] and [32, 48]
    c.model.vocab_size = 9;
    c.optimizer = OptimizerKind::GaLore;
    c.rank = rank;
    Optimized it(c);
    std::set<std::string> expected;
    for (const auto& p : it.model->named_parameters()) {
      const std::vector<std::string> names{"exp_avg." + p.key(), "exp_avg_sq." + p.key()};
      expected.insert(names.begin(), names.end());
      std::vector<int64_t> moments = p->sizes().vec();
      if (is_matrix_of_block(p.key(), *p)) {
        const int64_t n = p->size(0), m = p->size(1), r = std::min({rank, n, m});
        const std::string projection = "ortho_matrix." + p.key();
        expected.insert(projection);
        EXPECT_EQ(it.state[projection].sizes(), n >= m ? (std::vector{r, m}) : (std::vector{n, r})) << projection;
        moments = n >= m ? std::vector{n, r} : std::vector{r, m};
      }
      for (const std::string& name : names) EXPECT_EQ(it.state[name].sizes(), moments) << name;
    }
    EXPECT_EQ(it.optimizer->state().size(), expected.size());
    for (const auto& [name, tensor] : it.state) EXPECT_TRUE(expected.contains(name)) << name;
    test::draw_gradients(it.model);
    it.optimizer->step(0.01, 1.0);
    EXPECT_EQ(it.optimizer->steps(), 1);
  }
}

}  // namespace
}  // namespace folio::train
