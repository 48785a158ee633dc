// Tests core/isa.h: FOLIO_ISA selects any instruction set that this machine supports; other values are errors.
#include "core/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/core/support.h"

namespace folio::core {
namespace {

using test::ScopedEnv;

TEST(Isa, ReferenceIsAlwaysFirst) {
  const auto isas = supported_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::Reference);
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
}

TEST(Isa, SelectsTheBestByDefault) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ScopedEnv env("FOLIO_ISA", unset);
    EXPECT_EQ(select_isa(), supported_isas().back());
  }
}

TEST(Isa, EachSupportedIsaCanBeForced) {
  for (const Isa isa : supported_isas()) {
    const ScopedEnv env("FOLIO_ISA", std::string(isa_name(isa)).c_str());
    EXPECT_EQ(select_isa(), isa);
  }
}

TEST(Isa, ErrorsListTheSupportedIsas) {
  for (const char* wrong : {"sse9", "AVX2", "avx2 ", "refer", "a\nb"}) {
    const ScopedEnv env("FOLIO_ISA", wrong);
    const std::string message = test::error_of([] { static_cast<void>(select_isa()); });
    for (const Isa isa : supported_isas()) EXPECT_TRUE(test::contains(message, isa_name(isa)));
  }
  const auto isas = supported_isas();
  for (const Isa isa : {Isa::Avx2, Isa::Avx512, Isa::Avx512Vnni, Isa::Avx512Bf16, Isa::Amx, Isa::Neon, Isa::NeonI8mm}) {
    if (std::find(isas.begin(), isas.end(), isa) != isas.end()) continue;
    const ScopedEnv env("FOLIO_ISA", std::string(isa_name(isa)).c_str());
    EXPECT_ERROR(select_isa(), "not supported by this machine");
  }
}

}  // namespace
}  // namespace folio::core
