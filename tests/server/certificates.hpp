// Certificates for tests: an authority and what it signs, as files.
//
//   const certificate_authority authority("test authority");
//   authority.write("ca.crt");
//   authority.sign("localhost", "server.crt", "server.key");
//
// Valid for an hour, for 127.0.0.1 and localhost, with keys on P-256. Errors: std::runtime_error.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace icecore::server::testing {

template <auto Free>
struct free_with {
  void operator()(auto* of) const { Free(of); }
};
using key_pointer = std::unique_ptr<EVP_PKEY, free_with<EVP_PKEY_free>>;
using certificate_pointer = std::unique_ptr<X509, free_with<X509_free>>;

class certificate_authority {
 public:
  explicit certificate_authority(const std::string& name)
      : key_(EVP_EC_gen("P-256")), certificate_(make(name, key_.get(), nullptr)) {}

  void write(const std::filesystem::path& file) const { write_certificate(file, certificate_.get()); }

  /// A key and a certificate of it.
  void sign(const std::string& name, const std::filesystem::path& certificate, const std::filesystem::path& key) const {
    const key_pointer made(EVP_EC_gen("P-256"));
    write_certificate(certificate, make(name, made.get(), certificate_.get()).get());
    const file_pointer out = open(key);
    require(PEM_write_PrivateKey(out.get(), made.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  }

 private:
  struct close_file {
    void operator()(std::FILE* of) const { std::fclose(of); }
  };
  using file_pointer = std::unique_ptr<std::FILE, close_file>;

  static void require(bool fine) {
    if (!fine) throw std::runtime_error("a certificate could not be made");
  }

  static file_pointer open(const std::filesystem::path& file) {
    file_pointer out(std::fopen(file.c_str(), "w"));
    require(out != nullptr);
    return out;
  }

  static void write_certificate(const std::filesystem::path& file, X509* certificate) {
    const file_pointer out = open(file);
    require(PEM_write_X509(out.get(), certificate) == 1);
  }

  static void add_extension(X509* to, X509* issuer, int what, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, &context, what, value);
    require(made != nullptr);
    X509_add_ext(to, made, -1);
    X509_EXTENSION_free(made);
  }

  /// Without an issuer: of an authority, signed by its own key.
  certificate_pointer make(const std::string& name, EVP_PKEY* key, X509* issuer) const {
    constexpr long hour_s = 3600;
    static int serial = 0;
    certificate_pointer made(X509_new());
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -hour_s);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), hour_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_pubkey(made.get(), key);
    X509* const signer = issuer == nullptr ? made.get() : issuer;
    X509_set_issuer_name(made.get(), X509_get_subject_name(signer));
    if (issuer == nullptr) {
      add_extension(made.get(), signer, NID_basic_constraints, "critical,CA:TRUE");
    } else {
      add_extension(made.get(), signer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    }
    require(X509_sign(made.get(), key_.get(), EVP_sha256()) > 0);
    return made;
  }

  key_pointer key_;  ///< before certificate_, which it signs
  certificate_pointer certificate_;
};

}  // namespace icecore::server::testing
