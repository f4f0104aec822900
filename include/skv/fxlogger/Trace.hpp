// SKV's programs include a header of this name beside the logger's, and call these names. SKV's traces were switched
// off unless it was built with them; here they are never on, and every call returns at once.
#pragma once

#include <FxLogger.hpp>

/// Where SKV wrote its traces.
class pkTraceServer {
 public:
  static void Init(unsigned short = 0) {}
  static void FlushNames() {}
  static void Reset() {}
  static void ResetAndFlushNames() {}
  static void FlushBuffer() {}
  static void AddHit(unsigned long long, unsigned short, int = 0, int = 0) {}
};

/// A source of traces, which HitOE and HitOET told of an event.
class pkTraceStream {
 public:
  template <class... Ignored>
  void hit(const Ignored&...) {}
};
#define TraceClient pkTraceStream
#define HitOE(Flag, ContextName, Ordinal, EventName) hit((Flag), (ContextName), (Ordinal))
#define HitOET(Flag, ContextName, Ordinal, EventName, ReportedTime) \
  hit((Flag), (ContextName), (Ordinal), (ReportedTime))
