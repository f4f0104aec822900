! Batches; programs use the module icecore.
module icecore_batches
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use icecore_c
  use icecore_support
  implicit none
  private

  ! Inserts and removes that take effect at one instant: readers and crashes see all of them or none.
  type, public :: icecore_batch
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: batch_text
    procedure, private :: batch_int8
    procedure, private :: batch_int32
    procedure, private :: batch_int64
    procedure, private :: batch_real32
    procedure, private :: batch_real64
    generic :: insert => batch_text, batch_int8, batch_int32, batch_int64, batch_real32, batch_real64
    procedure :: remove => batch_remove
    procedure :: clear => batch_clear
    final :: batch_release
  end type icecore_batch

contains

  ! Adds to a batch, which is made by its first operation.
  subroutine add(self, key, data, bytes, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(c_ptr), intent(in) :: data
    integer(int64), intent(in) :: bytes
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: code
    code = ICECORE_OK
    if (.not. c_associated(self%handle)) code = icecore_batch_new(self%handle)
    if (code == ICECORE_OK) code = icecore_batch_insert(self%handle, key, len(key, c_size_t), data, int(bytes, c_size_t))
    call report(code, stat, message)
  end subroutine

  subroutine batch_text(self, key, value, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    character(len=*), intent(in), target :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(c_ptr) :: data
    data = c_loc(value)  ! by itself: as an argument gfortran 12 would hand over the length of value as that of message
    call add(self, key, data, len(value, int64), stat, message)
  end subroutine

  subroutine batch_remove(self, key, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: code
    code = ICECORE_OK
    if (.not. c_associated(self%handle)) code = icecore_batch_new(self%handle)
    if (code == ICECORE_OK) code = icecore_batch_remove(self%handle, key, len(key, c_size_t))
    call report(code, stat, message)
  end subroutine

  subroutine batch_clear(self)
    class(icecore_batch), intent(inout) :: self
    call icecore_batch_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine batch_release(self)
    type(icecore_batch), intent(inout) :: self
    call self%clear()
  end subroutine

  subroutine batch_int8(self, key, value, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    integer(int8), intent(in), contiguous, target :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call add(self, key, c_loc(value), size(value, kind=int64) * 1_int64, stat, message)
  end subroutine

  subroutine batch_int32(self, key, value, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    integer(int32), intent(in), contiguous, target :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call add(self, key, c_loc(value), size(value, kind=int64) * 4_int64, stat, message)
  end subroutine

  subroutine batch_int64(self, key, value, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    integer(int64), intent(in), contiguous, target :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call add(self, key, c_loc(value), size(value, kind=int64) * 8_int64, stat, message)
  end subroutine

  subroutine batch_real32(self, key, value, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    real(real32), intent(in), contiguous, target :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call add(self, key, c_loc(value), size(value, kind=int64) * 4_int64, stat, message)
  end subroutine

  subroutine batch_real64(self, key, value, stat, message)
    class(icecore_batch), intent(inout) :: self
    character(len=*), intent(in) :: key
    real(real64), intent(in), contiguous, target :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call add(self, key, c_loc(value), size(value, kind=int64) * 8_int64, stat, message)
  end subroutine
end module icecore_batches
