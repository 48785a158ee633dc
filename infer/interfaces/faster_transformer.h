// FasterTransformer's decoder models over Folio's engine.
#pragma once

namespace folio::infer::faster_transformer {}  // namespace folio::infer::faster_transformer
