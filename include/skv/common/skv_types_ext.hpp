// The types of SKV's C++ interface.
//
//   skv_pds_id_t id;                  // a plain value: a process may send it to another one, which need not open the
//   PDS
//
// Threads, lifetime: plain data. Cost: O(1).
#ifndef SKV_COMMON_SKV_TYPES_EXT_HPP
#define SKV_COMMON_SKV_TYPES_EXT_HPP
#pragma once

#ifndef SKV_CLIENT_UNI
#ifndef SKV_NON_MPI
#include <mpi.h>
#endif
#endif

#include <arpa/inet.h>
#include <skv/c/skv.h>

#include <cstdint>

struct skv_pds_id_t {
  unsigned int mOwnerNodeId;
  unsigned int mIdOnOwner;

  void Init(int aOwner = 0, int aId = 0) {
    mOwnerNodeId = static_cast<unsigned int>(aOwner);
    mIdOnOwner = static_cast<unsigned int>(aId);
  }
  bool operator==(const skv_pds_id_t& aPDSId) const {
    return mOwnerNodeId == aPDSId.mOwnerNodeId && mIdOnOwner == aPDSId.mIdOnOwner;
  }
  bool operator!=(const skv_pds_id_t& aPDSId) const { return !(*this == aPDSId); }
  bool operator<(const skv_pds_id_t& aPDSId) const {
    return mOwnerNodeId != aPDSId.mOwnerNodeId ? mOwnerNodeId < aPDSId.mOwnerNodeId : mIdOnOwner < aPDSId.mIdOnOwner;
  }
};

template <class streamclass>
static inline streamclass& operator<<(streamclass& os, const skv_pds_id_t& aT) {
  os << "skv_pds_id_t [  " << aT.mOwnerNodeId << ' ' << aT.mIdOnOwner << " ]";
  return os;
}

struct skv_pds_attr_t {
  std::uint64_t mSize;
  skv_pds_priv_t mPrivs;
  skv_pdsname_string_t mPDSName[SKV_MAX_PDS_NAME_SIZE];
  skv_pds_id_t mPDSId;
};

template <class streamclass>
static inline streamclass& operator<<(streamclass& os, const skv_pds_attr_t& aT) {
  os << "skv_pds_attr_t [ " << aT.mPDSId << ' ' << static_cast<unsigned>(aT.mPrivs) << " s:" << aT.mSize
     << " n:" << aT.mPDSName << " ]";
  return os;
}

#endif
