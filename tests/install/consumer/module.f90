! The same program in Fortran, by the module.
program consumer
  use icecore
  implicit none
  type(icecore_store) :: store
  type(icecore_snapshot) :: then
  character(len=:), allocatable :: before, after
  character(len=4096) :: path

  call get_command_argument(1, path)
  call store%open(path)
  call store%insert('key', 'before')
  call store%tag('then')
  call store%insert('key', 'after')
  call store%at(then, tag='then')
  call then%find('key', before)
  call store%find('key', after)
  print '(6a)', 'icecore ', icecore_library(), ': ', before, ', ', after
end program
