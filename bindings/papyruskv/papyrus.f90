! PapyrusKV's module for Fortran: the functions of papyrus/kv.h as subroutines, with the result in the last argument.
!
!   use papyrus
!   call papyruskv_init('repository' // char(0), ierror)         ! C's strings: they end with char(0)
!   call papyruskv_open('weather' // char(0), ior(PAPYRUSKV_CREATE, PAPYRUSKV_RDWR), db, ierror)
!   call papyruskv_put(db, key, keylen, val, vallen, ierror)     ! lengths are of kind 8
!   nullify(found)                                               ! or: a buffer of any size; get never writes beyond it
!   call papyruskv_get(db, key, keylen, found, vallen, ierror)
!   call papyruskv_free(found, ierror)
!
! The program starts MPI with MPI_INIT_THREAD and MPI_THREAD_MULTIPLE.
module papyrus
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer, parameter, public :: PAPYRUSKV_OK = 0
  integer, parameter, public :: PAPYRUSKV_ERR = -1
  integer, parameter, public :: PAPYRUSKV_MEMTABLE = 1
  integer, parameter, public :: PAPYRUSKV_SSTABLE = 2
  integer, parameter, public :: PAPYRUSKV_SEQUENTIAL = 1
  integer, parameter, public :: PAPYRUSKV_RELAXED = 2
  integer, parameter, public :: PAPYRUSKV_CREATE = 4
  integer, parameter, public :: PAPYRUSKV_RDWR = 8
  integer, parameter, public :: PAPYRUSKV_WRONLY = 16
  integer, parameter, public :: PAPYRUSKV_RDONLY = 32
  integer, parameter, public :: PAPYRUSKV_UDONLY = 64

  ! Where papyruskv_get_pos found a key; for papyruskv_update.
  type, bind(c), public :: papyruskv_pos_t
    type(c_ptr) :: handle = c_null_ptr
  end type papyruskv_pos_t

  ! One key and value of this rank: call c_f_pointer(iter%key, key, [iter%keylen]), with character, pointer :: key(:).
  type, bind(c), public :: papyruskv_iter_t
    type(c_ptr) :: key
    integer(c_size_t) :: keylen
    type(c_ptr) :: val
    integer(c_size_t) :: vallen
    type(c_ptr) :: handle
  end type papyruskv_iter_t

  ! The program's functions, which are bind(c) too. papyrus/kv.h says what they do and may do.
  abstract interface
    integer(c_int) function papyruskv_hash_fn_t(key, keylen, nranks) bind(c)
      import :: c_int, c_char, c_size_t
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen, nranks
    end function papyruskv_hash_fn_t

    integer(c_int) function papyruskv_update_fn_t(key, keylen, val, vallen, userin, userinlen, userout, useroutlen) bind(c)
      import :: c_int, c_char, c_size_t, c_ptr
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen, userinlen, useroutlen
      type(c_ptr), intent(inout) :: val
      integer(c_size_t), intent(inout) :: vallen
      type(c_ptr), value :: userin, userout
    end function papyruskv_update_fn_t
  end interface
  public :: papyruskv_hash_fn_t, papyruskv_update_fn_t

  public :: papyruskv_init, papyruskv_finalize, papyruskv_open, papyruskv_close, papyruskv_destroy
  public :: papyruskv_put, papyruskv_get, papyruskv_delete, papyruskv_free
  public :: papyruskv_fence, papyruskv_barrier, papyruskv_signal_notify, papyruskv_signal_wait
  public :: papyruskv_consistency, papyruskv_protect, papyruskv_checkpoint, papyruskv_restart, papyruskv_wait
  public :: papyruskv_hash, papyruskv_get_pos, papyruskv_iter_local, papyruskv_iter_next
  public :: papyruskv_register_update, papyruskv_update

  interface
    integer(c_int) function c_init(argc, argv, repository) bind(c, name='papyruskv_init')
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: argc, argv
      character(kind=c_char), intent(in) :: repository(*)
    end function c_init

    integer(c_int) function c_finalize() bind(c, name='papyruskv_finalize')
      import :: c_int
    end function c_finalize

    integer(c_int) function c_open(name, flags, opt, db) bind(c, name='papyruskv_open')
      import :: c_int, c_ptr, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: flags
      type(c_ptr), value :: opt
      integer(c_int), intent(out) :: db
    end function c_open

    integer(c_int) function c_close(db) bind(c, name='papyruskv_close')
      import :: c_int
      integer(c_int), value :: db
    end function c_close

    integer(c_int) function c_destroy(db, event) bind(c, name='papyruskv_destroy')
      import :: c_int
      integer(c_int), value :: db
      integer(c_int), intent(inout) :: event
    end function c_destroy

    integer(c_int) function c_put(db, key, keylen, val, vallen) bind(c, name='papyruskv_put')
      import :: c_int, c_char, c_size_t
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: key(*), val(*)
      integer(c_size_t), value :: keylen, vallen
    end function c_put

    integer(c_int) function c_delete(db, key, keylen) bind(c, name='papyruskv_delete')
      import :: c_int, c_char, c_size_t
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen
    end function c_delete

    integer(c_int) function c_free(val) bind(c, name='papyruskv_free')
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: val
    end function c_free

    integer(c_int) function c_fence(db, level) bind(c, name='papyruskv_fence')
      import :: c_int
      integer(c_int), value :: db, level
    end function c_fence

    integer(c_int) function c_barrier(db, level) bind(c, name='papyruskv_barrier')
      import :: c_int
      integer(c_int), value :: db, level
    end function c_barrier

    integer(c_int) function c_signal_notify(signum, ranks, count) bind(c, name='papyruskv_signal_notify')
      import :: c_int
      integer(c_int), value :: signum, count
      integer(c_int), intent(in) :: ranks(*)
    end function c_signal_notify

    integer(c_int) function c_signal_wait(signum, ranks, count) bind(c, name='papyruskv_signal_wait')
      import :: c_int
      integer(c_int), value :: signum, count
      integer(c_int), intent(in) :: ranks(*)
    end function c_signal_wait

    integer(c_int) function c_consistency(db, consistency) bind(c, name='papyruskv_consistency')
      import :: c_int
      integer(c_int), value :: db, consistency
    end function c_consistency

    integer(c_int) function c_protect(db, protect) bind(c, name='papyruskv_protect')
      import :: c_int
      integer(c_int), value :: db, protect
    end function c_protect

    integer(c_int) function c_checkpoint(db, path, event) bind(c, name='papyruskv_checkpoint')
      import :: c_int, c_char
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), intent(inout) :: event
    end function c_checkpoint

    integer(c_int) function c_restart(path, name, flags, opt, db, event) bind(c, name='papyruskv_restart')
      import :: c_int, c_ptr, c_char
      character(kind=c_char), intent(in) :: path(*), name(*)
      integer(c_int), value :: flags
      type(c_ptr), value :: opt
      integer(c_int), intent(inout) :: db, event
    end function c_restart

    integer(c_int) function c_wait(db, event) bind(c, name='papyruskv_wait')
      import :: c_int
      integer(c_int), value :: db, event
    end function c_wait

    integer(c_int) function c_hash(db, hfn) bind(c, name='papyruskv_hash')
      import :: c_int, c_funptr
      integer(c_int), value :: db
      type(c_funptr), value :: hfn
    end function c_hash

    integer(c_int) function c_get_pos(db, key, keylen, val, vallen, pos) bind(c, name='papyruskv_get_pos')
      import :: c_int, c_ptr, c_char, c_size_t, papyruskv_pos_t
      integer(c_int), value :: db
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen
      type(c_ptr), intent(inout) :: val
      integer(c_size_t), intent(inout) :: vallen
      type(papyruskv_pos_t), intent(inout) :: pos
    end function c_get_pos

    integer(c_int) function c_iter_local(db, iter) bind(c, name='papyruskv_iter_local')
      import :: c_int, c_ptr
      integer(c_int), value :: db
      type(c_ptr), intent(inout) :: iter
    end function c_iter_local

    integer(c_int) function c_iter_next(db, iter) bind(c, name='papyruskv_iter_next')
      import :: c_int, c_ptr
      integer(c_int), value :: db
      type(c_ptr), intent(inout) :: iter
    end function c_iter_next

    integer(c_int) function c_register_update(db, fnid, ufn) bind(c, name='papyruskv_register_update')
      import :: c_int, c_funptr
      integer(c_int), value :: db, fnid
      type(c_funptr), value :: ufn
    end function c_register_update

    integer(c_int) function c_update(db, key, keylen, pos, fnid, userin, userinlen, userout, useroutlen) &
        bind(c, name='papyruskv_update')
      import :: c_int, c_char, c_size_t, c_ptr, papyruskv_pos_t
      integer(c_int), value :: db, fnid
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: keylen, userinlen, useroutlen
      type(papyruskv_pos_t), intent(inout) :: pos
      type(c_ptr), value :: userin, userout
    end function c_update
  end interface

contains

  subroutine papyruskv_init(repository, ierror)
    character, intent(in) :: repository(*)
    integer, intent(out) :: ierror
    ierror = c_init(c_null_ptr, c_null_ptr, repository)
  end subroutine papyruskv_init

  subroutine papyruskv_finalize(ierror)
    integer, intent(out) :: ierror
    ierror = c_finalize()
  end subroutine papyruskv_finalize

  subroutine papyruskv_open(name, flags, db, ierror)
    character, intent(in) :: name(*)
    integer, intent(in) :: flags
    integer, intent(out) :: db, ierror
    ierror = c_open(name, flags, c_null_ptr, db)
  end subroutine papyruskv_open

  subroutine papyruskv_close(db, ierror)
    integer, intent(in) :: db
    integer, intent(out) :: ierror
    ierror = c_close(db)
  end subroutine papyruskv_close

  subroutine papyruskv_destroy(db, event, ierror)
    integer, intent(in) :: db
    integer, intent(out) :: event, ierror
    event = 0
    ierror = c_destroy(db, event)
  end subroutine papyruskv_destroy

  subroutine papyruskv_put(db, key, keylen, val, vallen, ierror)
    integer, intent(in) :: db
    character, intent(in) :: key(*), val(*)
    integer(kind=8), intent(in) :: keylen, vallen
    integer, intent(out) :: ierror
    ierror = c_put(db, key, keylen, val, vallen)
  end subroutine papyruskv_put

  ! The value goes to the caller's array if `val` has one, which must be contiguous; otherwise to a new array, which
  ! papyruskv_free frees. `vallen` is the value's length; if the value does not fit, the result is PAPYRUSKV_ERR.
  subroutine papyruskv_get(db, key, keylen, val, vallen, ierror)
    integer, intent(in) :: db
    character, intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen
    character, pointer, intent(inout) :: val(:)
    integer(kind=8), intent(out) :: vallen
    integer, intent(out) :: ierror
    type(papyruskv_pos_t) :: pos
    call papyruskv_get_pos(db, key, keylen, val, vallen, pos, ierror)
  end subroutine papyruskv_get

  ! The same; also returns where the key was found.
  subroutine papyruskv_get_pos(db, key, keylen, val, vallen, pos, ierror)
    integer, intent(in) :: db
    character, intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen
    character, pointer, intent(inout) :: val(:)
    integer(kind=8), intent(out) :: vallen
    type(papyruskv_pos_t), intent(out) :: pos
    integer, intent(out) :: ierror
    type(c_ptr) :: bytes

    vallen = 0
    if (associated(val)) then
      ierror = PAPYRUSKV_ERR
      if (.not. is_contiguous(val)) return
      bytes = c_loc(val(lbound(val, 1)))
      vallen = size(val, kind=8)
      ierror = c_get_pos(db, key, keylen, bytes, vallen, pos)
    else
      bytes = c_null_ptr
      ierror = c_get_pos(db, key, keylen, bytes, vallen, pos)
      if (ierror == PAPYRUSKV_OK) call c_f_pointer(bytes, val, [vallen])
    end if
  end subroutine papyruskv_get_pos

  subroutine papyruskv_delete(db, key, keylen, ierror)
    integer, intent(in) :: db
    character, intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen
    integer, intent(out) :: ierror
    ierror = c_delete(db, key, keylen)
  end subroutine papyruskv_delete

  subroutine papyruskv_free(val, ierror)
    character, pointer, intent(inout) :: val(:)
    integer, intent(out) :: ierror
    type(c_ptr) :: bytes
    bytes = c_null_ptr
    if (associated(val)) bytes = c_loc(val(lbound(val, 1)))
    ierror = c_free(bytes)
    nullify(val)
  end subroutine papyruskv_free

  subroutine papyruskv_fence(db, level, ierror)
    integer, intent(in) :: db, level
    integer, intent(out) :: ierror
    ierror = c_fence(db, level)
  end subroutine papyruskv_fence

  subroutine papyruskv_barrier(db, level, ierror)
    integer, intent(in) :: db, level
    integer, intent(out) :: ierror
    ierror = c_barrier(db, level)
  end subroutine papyruskv_barrier

  subroutine papyruskv_signal_notify(signum, ranks, count, ierror)
    integer, intent(in) :: signum, ranks(*), count
    integer, intent(out) :: ierror
    ierror = c_signal_notify(signum, ranks, count)
  end subroutine papyruskv_signal_notify

  subroutine papyruskv_signal_wait(signum, ranks, count, ierror)
    integer, intent(in) :: signum, ranks(*), count
    integer, intent(out) :: ierror
    ierror = c_signal_wait(signum, ranks, count)
  end subroutine papyruskv_signal_wait

  subroutine papyruskv_consistency(db, consistency, ierror)
    integer, intent(in) :: db, consistency
    integer, intent(out) :: ierror
    ierror = c_consistency(db, consistency)
  end subroutine papyruskv_consistency

  subroutine papyruskv_protect(db, protect, ierror)
    integer, intent(in) :: db, protect
    integer, intent(out) :: ierror
    ierror = c_protect(db, protect)
  end subroutine papyruskv_protect

  subroutine papyruskv_checkpoint(db, path, event, ierror)
    integer, intent(in) :: db
    character, intent(in) :: path(*)
    integer, intent(out) :: event, ierror
    event = 0
    ierror = c_checkpoint(db, path, event)
  end subroutine papyruskv_checkpoint

  subroutine papyruskv_restart(path, name, flags, db, event, ierror)
    character, intent(in) :: path(*), name(*)
    integer, intent(in) :: flags
    integer, intent(out) :: db, event, ierror
    db = -1
    event = 0
    ierror = c_restart(path, name, flags, c_null_ptr, db, event)
  end subroutine papyruskv_restart

  subroutine papyruskv_wait(db, event, ierror)
    integer, intent(in) :: db, event
    integer, intent(out) :: ierror
    ierror = c_wait(db, event)
  end subroutine papyruskv_wait

  subroutine papyruskv_hash(db, hfn, ierror)
    integer, intent(in) :: db
    procedure(papyruskv_hash_fn_t) :: hfn
    integer, intent(out) :: ierror
    ierror = c_hash(db, c_funloc(hfn))
  end subroutine papyruskv_hash

  ! `iter` is null if this rank has no keys, and after the last of them.
  subroutine papyruskv_iter_local(db, iter, ierror)
    integer, intent(in) :: db
    type(papyruskv_iter_t), pointer, intent(out) :: iter
    integer, intent(out) :: ierror
    type(c_ptr) :: at
    at = c_null_ptr
    ierror = c_iter_local(db, at)
    nullify(iter)
    if (c_associated(at)) call c_f_pointer(at, iter)
  end subroutine papyruskv_iter_local

  subroutine papyruskv_iter_next(db, iter, ierror)
    integer, intent(in) :: db
    type(papyruskv_iter_t), pointer, intent(inout) :: iter
    integer, intent(out) :: ierror
    type(c_ptr) :: at
    at = c_null_ptr
    if (associated(iter)) at = c_loc(iter)
    ierror = c_iter_next(db, at)
    if (.not. c_associated(at)) nullify(iter)
  end subroutine papyruskv_iter_next

  subroutine papyruskv_register_update(db, fnid, ufn, ierror)
    integer, intent(in) :: db, fnid
    procedure(papyruskv_update_fn_t) :: ufn
    integer, intent(out) :: ierror
    ierror = c_register_update(db, fnid, c_funloc(ufn))
  end subroutine papyruskv_register_update

  ! `userin` and `userout` are c_loc of what the function gets and writes, or c_null_ptr.
  subroutine papyruskv_update(db, key, keylen, pos, fnid, userin, userinlen, userout, useroutlen, ierror)
    integer, intent(in) :: db, fnid
    character, intent(in) :: key(*)
    integer(kind=8), intent(in) :: keylen, userinlen, useroutlen
    type(papyruskv_pos_t), intent(inout) :: pos
    type(c_ptr), intent(in) :: userin, userout
    integer, intent(out) :: ierror
    ierror = c_update(db, key, keylen, pos, fnid, userin, userinlen, userout, useroutlen)
  end subroutine papyruskv_update

end module papyrus
