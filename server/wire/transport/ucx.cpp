#include "wire/transport/ucx.hpp"

#include <ucs/config/global_opts.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "wire/transport/failure.hpp"

namespace icecore::wire {

namespace {

void require(ucs_status_t status, const char* call) {
  if (status != UCS_OK) throw failure(std::string("UCX: ") + call + ": " + ucs_status_string(status));
}

void set(ucp_config_t* config, const char* name, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
  if (status != UCS_OK) {
    throw failure(std::string("UCX does not take ") + name + " = " + value + ": " + ucs_status_string(status));
  }
}

using configuration = std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)>;

configuration configure(const ucx_options& options) {
  static std::once_flag silenced;
  std::call_once(silenced, [] {
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) static_cast<void>(ucs_global_opts_set_value("LOG_LEVEL", "fatal"));
  });
  ucp_config_t* read = nullptr;
  require(ucp_config_read(nullptr, nullptr, &read), "ucp_config_read");
  configuration config(read, &ucp_config_release);
  switch (options.way) {
    case transport::automatic:
      if (std::getenv("UCX_TLS") == nullptr) set(read, "TLS", "^cma");
      break;
    case transport::shared_memory:
      set(read, "TLS", "posix,sysv,self");
      break;
    case transport::tcp:
      set(read, "TLS", "tcp,self");
      break;
  }
  set(read, "MM_ERROR_HANDLING", "y");
  if (!options.network_devices.empty()) set(read, "NET_DEVICES", options.network_devices);
  return config;
}

}  // namespace

ucx_worker::ucx_worker(const ucx_options& options) {
  const configuration config = configure(options);
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  require(ucp_init(&parameters, config.get(), &context_), "ucp_init");
  try {
    ucp_worker_params_t wanted{};
    wanted.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
    wanted.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    wanted.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
    require(ucp_worker_create(context_, &wanted, &worker_), "ucp_worker_create");
    require(ucp_worker_get_efd(worker_, &event_descriptor_), "ucp_worker_get_efd");
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    require(ucp_worker_get_address(worker_, &address, &size), "ucp_worker_get_address");
    const auto* const bytes = reinterpret_cast<const std::byte*>(address);
    address_.assign(bytes, bytes + size);
    ucp_worker_release_address(worker_, address);
  } catch (...) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

ucx_worker::~ucx_worker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

void ucx_worker::receive_with(ucp_am_recv_callback_t receive, void* argument) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                       UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = frame_message;
  handler.cb = receive;
  handler.arg = argument;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  require(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
}

ucp_ep_h ucx_worker::make_endpoint(std::span<const std::byte> peer, ucp_err_handler_cb_t on_error, void* argument,
                                   std::string& why) noexcept {
  ucp_ep_params_t wanted{};
  wanted.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  wanted.address = reinterpret_cast<const ucp_address_t*>(peer.data());
  wanted.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  wanted.err_handler.cb = on_error;
  wanted.err_handler.arg = argument;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_, &wanted, &endpoint);
  if (status == UCS_OK) return endpoint;
  why = ucs_status_string(status);
  return nullptr;
}

void* ucx_worker::reach(ucp_ep_h endpoint) noexcept {
  ucp_request_param_t how{};
  return ucp_ep_flush_nbx(endpoint, &how);
}

ucs_status_t ucx_worker::reached(void* request) noexcept {
  if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
  const ucs_status_t status = ucp_request_check_status(request);
  if (status != UCS_INPROGRESS) ucp_request_free(request);
  return status;
}

bool ucx_worker::over_tcp(ucp_ep_h endpoint) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const told = open_memstream(&text, &size);
  if (told == nullptr) throw failure("there is no memory for what UCX tells of an endpoint");
  ucp_ep_print_info(endpoint, told);
  static_cast<void>(std::fclose(told));
  const std::unique_ptr<char, decltype(&std::free)> kept(text, &std::free);
  return std::string_view(text, size).find(":tcp/") != std::string_view::npos;  // "lane[0]: 1:tcp/eth0 ..."
}

void* ucx_worker::close_endpoint(ucp_ep_h endpoint, bool at_once) noexcept {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = at_once ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  void* const request = ucp_ep_close_nbx(endpoint, &how);
  return UCS_PTR_IS_ERR(request) ? nullptr : request;
}

bool ucx_worker::closed(void* request) noexcept {
  if (request == nullptr) return true;
  if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
  ucp_request_free(request);
  return true;
}

void ucx_worker::end_endpoint(ucp_ep_h endpoint) noexcept {
  void* const request = close_endpoint(endpoint, true);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!closed(request) && std::chrono::steady_clock::now() < limit) progress();
}

}  // namespace icecore::wire
