#include "network/emulated_network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <system_error>

namespace icecore::network {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t packet_bytes_max = 65'536;
constexpr std::uint64_t packets_waiting_max = 100'000;  // a queue of a router has an end

int require(int result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
  return result;
}

// ---- Devices and namespaces ----

void set_address(int socket, const std::string& label, const char* address) {
  ifreq request{};
  label.copy(request.ifr_name, IFNAMSIZ - 1);
  auto& to = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
  to.sin_family = AF_INET;
  inet_pton(AF_INET, address, &to.sin_addr);
  require(ioctl(socket, SIOCSIFADDR, &request), "SIOCSIFADDR");
  inet_pton(AF_INET, "255.255.255.0", &to.sin_addr);
  require(ioctl(socket, SIOCSIFNETMASK, &request), "SIOCSIFNETMASK");
}

// A TUN device of the calling thread's network namespace.
int make_device(const std::string& name, const char* address, const char* loopback_address) {
  const int device = require(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  require(ioctl(device, TUNSETIFF, &request), "TUNSETIFF");
  const int socket = require(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
  set_address(socket, name, address);
  std::ofstream("/proc/sys/net/ipv4/conf/all/route_localnet") << 1;  // 127.77.0.0 is elsewhere: "lo" stays down
  std::ofstream("/proc/sys/net/ipv4/conf/" + name + "/route_localnet") << 1;
  set_address(socket, name + ":1", loopback_address);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  require(ioctl(socket, SIOCSIFFLAGS, &request), "SIOCSIFFLAGS");
  close(socket);
  return device;
}

// /sys shows the devices of the namespace that mounted it.
void show_own_devices() {
  require(unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)");
  require(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "mount /");
  require(mount("sysfs", "/sys", "sysfs", 0, nullptr), "mount /sys");
}

void on_thread_of_its_own(const std::function<void()>& work) {
  std::exception_ptr failed;
  std::thread([&] {
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
}

// ---- TCP ----

struct segment {
  std::uint32_t source, destination;  // as in the packet
  std::uint16_t source_port, destination_port;
  std::uint32_t sequence, acknowledged;  // the machine's byte order
  std::uint32_t length;                  // of the sequence space that it takes
  bool acknowledges, resets;
};

std::optional<segment> segment_of(const std::vector<unsigned char>& bytes) {
  if (bytes.size() < sizeof(iphdr) || bytes[0] >> 4 != 4) return std::nullopt;
  iphdr ip{};
  std::memcpy(&ip, bytes.data(), sizeof ip);
  const std::size_t header = std::size_t{ip.ihl} * 4;
  if (ip.protocol != IPPROTO_TCP || bytes.size() < header + sizeof(tcphdr)) return std::nullopt;
  tcphdr tcp{};
  std::memcpy(&tcp, bytes.data() + header, sizeof tcp);
  const std::size_t data = bytes.size() - std::min(bytes.size(), header + std::size_t{tcp.doff} * 4);
  return segment{.source = ip.saddr,
                 .destination = ip.daddr,
                 .source_port = tcp.source,
                 .destination_port = tcp.dest,
                 .sequence = ntohl(tcp.seq),
                 .acknowledged = ntohl(tcp.ack_seq),
                 .length = static_cast<std::uint32_t>(data + tcp.syn + tcp.fin),
                 .acknowledges = tcp.ack != 0,
                 .resets = tcp.rst != 0};
}

// The same for both directions.
std::pair<std::uint64_t, std::uint64_t> connection_of(const segment& s) {
  const std::uint64_t one = std::uint64_t{s.source} << 16U | s.source_port;
  const std::uint64_t other = std::uint64_t{s.destination} << 16U | s.destination_port;
  return {std::min(one, other), std::max(one, other)};
}

std::uint32_t sum_of(const void* bytes, std::size_t count, std::uint32_t sum = 0) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i + 1 < count; i += 2) sum += static_cast<std::uint32_t>(at[i]) << 8U | at[i + 1];
  return sum;
}
std::uint16_t checksum_of(std::uint32_t sum) {
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return htons(static_cast<std::uint16_t>(~sum));
}

// An RST that the receiver of `sequence` believes: the number is the next one that it waits for (RFC 5961).
std::vector<unsigned char> reset_packet(std::uint32_t source, std::uint16_t source_port, std::uint32_t destination,
                                        std::uint16_t destination_port, std::uint32_t sequence) {
  iphdr ip{};
  ip.version = 4;
  ip.ihl = sizeof ip / 4;
  ip.ttl = 64;
  ip.protocol = IPPROTO_TCP;
  ip.tot_len = htons(sizeof(iphdr) + sizeof(tcphdr));
  ip.saddr = source;
  ip.daddr = destination;
  ip.check = checksum_of(sum_of(&ip, sizeof ip));
  tcphdr tcp{};
  tcp.source = source_port;
  tcp.dest = destination_port;
  tcp.seq = htonl(sequence);
  tcp.doff = sizeof tcp / 4;
  tcp.rst = 1;
  const std::uint32_t pseudo = sum_of(&ip.saddr, 2 * sizeof ip.saddr, IPPROTO_TCP + sizeof tcp);
  tcp.check = checksum_of(sum_of(&tcp, sizeof tcp, pseudo));
  std::vector<unsigned char> bytes(sizeof ip + sizeof tcp);
  std::memcpy(bytes.data(), &ip, sizeof ip);
  std::memcpy(bytes.data() + sizeof ip, &tcp, sizeof tcp);
  return bytes;
}

}  // namespace

std::string emulated_network::why_not() {
  const pid_t child = fork();
  if (child == 0) {
    try {
      require(unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)");
      show_own_devices();
      make_device("probe", "10.77.0.1", "127.77.0.1");
      std::_Exit(0);
    } catch (const std::system_error& e) {
      std::fprintf(stderr, "%s\n", e.what());
      std::_Exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status == 0) return {};
  return "network namespaces or TUN devices cannot be made here (they need root, and /dev/net/tun)";
}

emulated_network::emulated_network() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  on_thread_of_its_own([this] {
    require(unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)");
    server_device_ = make_device(server_device, server_address, server_loopback);
    server_namespace_ = require(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "/proc/thread-self/ns/net");
  });
  require(unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)");
  show_own_devices();
  client_device_ = make_device(client_device, "10.77.0.1", "127.77.0.1");
  thread_ = std::thread([this] { forward(); });
}

emulated_network::~emulated_network() {
  ending_.store(true);
  (void)!write(wake_, "12345678", sizeof(std::uint64_t));
  thread_.join();
  for (const int each : {client_device_, server_device_, server_namespace_, wake_}) close(each);
}

void emulated_network::become(const condition& now) {
  const std::lock_guard lock(mutex_);
  now_ = now;
}
void emulated_network::reset_connections() {
  const std::lock_guard lock(mutex_);
  ++resetting_;
}
counts emulated_network::counted() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void emulated_network::join_as_server() const {
  require(setns(server_namespace_, CLONE_NEWNET), "setns");
  show_own_devices();
}

void emulated_network::forward() {
  for (;;) {
    int wait_ms = -1;
    {
      const std::lock_guard lock(mutex_);
      if (!queue_.empty()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(queue_.top().due - clock::now());
        wait_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
      }
    }
    std::array<pollfd, 3> polled{pollfd{client_device_, POLLIN, 0}, pollfd{server_device_, POLLIN, 0},
                                 pollfd{wake_, POLLIN, 0}};
    poll(polled.data(), polled.size(), wait_ms);
    if (ending_.load()) return;
    const std::lock_guard lock(mutex_);
    read_all(client_device_, way::to_server);
    read_all(server_device_, way::to_client);
    send_due();
  }
}

void emulated_network::read_all(int device, way to) {
  for (;;) {
    packet bytes(packet_bytes_max);
    const ssize_t count = read(device, bytes.data(), bytes.size());
    if (count <= 0) return;
    bytes.resize(static_cast<std::size_t>(count));
    take(std::move(bytes), to);
  }
}

void emulated_network::take(packet&& bytes, way to) {
  std::uniform_real_distribution<double> share(0, 1);
  if (reset(bytes, to)) return;
  const bool passes = to == way::to_server ? now_.to_server : now_.to_client;
  if (!passes || share(random_) < now_.loss || queue_.size() >= packets_waiting_max) {
    ++counts_.lost;
    return;
  }
  const auto put = [&](packet which) {
    auto due = clock::now() + now_.delay;
    if (now_.jitter > 0ms) due += std::chrono::microseconds(random_() % static_cast<std::uint64_t>(now_.jitter / 1us));
    if (share(random_) < now_.reordered) {
      ++counts_.reordered;
      due += now_.reordering;
    }
    queue_.push({due, ++numbers_, to, std::move(which)});
  };
  if (share(random_) < now_.duplicates) {
    ++counts_.duplicated;
    put(bytes);
  }
  put(std::move(bytes));
}

bool emulated_network::reset(const packet& bytes, way to) {
  const auto s = segment_of(bytes);
  if (!s || !s->acknowledges || s->resets) return false;
  std::uint64_t& done = reset_up_to_.try_emplace(connection_of(*s), resetting_).first->second;
  if (done >= resetting_) return false;
  done = resetting_;
  ++counts_.resets;
  send(reset_packet(s->destination, s->destination_port, s->source, s->source_port, s->acknowledged),
       to == way::to_server ? way::to_client : way::to_server);
  send(reset_packet(s->source, s->source_port, s->destination, s->destination_port, s->sequence), to);
  return true;
}

void emulated_network::send_due() {
  while (!queue_.empty() && queue_.top().due <= clock::now()) {
    send(queue_.top().bytes, queue_.top().to);
    ++counts_.forwarded;
    queue_.pop();
  }
}

void emulated_network::send(const packet& bytes, way to) const {
  (void)!write(to == way::to_server ? server_device_ : client_device_, bytes.data(), bytes.size());
}

}  // namespace icecore::network
