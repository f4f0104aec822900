// What UCX works on for an I/O thread: payloads that it fetches or hands over. Each lives until UCX has called back.
#pragma once

#include <memory>

#include "wire/server/io_thread.hpp"

namespace icecore::wire {

struct io_thread::outgoing {
  frame_header header;  // UCX reads it until the frame is sent
  byte_buffer payload;
  io_thread* self = nullptr;  // the rest: only of what was not taken at once
  std::shared_ptr<io_connection> to;
};

struct io_thread::receiving {
  io_thread& self;
  std::shared_ptr<io_connection> from;
  frame_header header;
  byte_buffer payload;
};

}  // namespace icecore::wire
