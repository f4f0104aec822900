// The metrics of a registry in the text format of Prometheus.
//
//   const std::string text = metrics_text(registry);     // "# HELP icecore_http_connections Open ...\n..."
//
// Threads: any, while others change metrics. Cost: O(metrics). Memory: that of the text.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace icecore::server::http {

[[nodiscard]] inline std::string metrics_text(const prometheus::Collectable& of) {
  return prometheus::TextSerializer().Serialize(of.Collect());
}

}  // namespace icecore::server::http
