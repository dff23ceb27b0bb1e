# The programs with --recompute layer: each compares what it sent and its loss with the formula and one rank.
foreach(plan basic sequence article)
  course_add_ranks(10_tensor_parallel_training.recompute.${plan} 3 $<TARGET_FILE:10_tensor_parallel_training> --plan ${plan}
    --recompute layer --steps 2 --accumulate 2 --seq 13 --quiet --text chapters/01_column_row_split/README.md)
  set_tests_properties(10_tensor_parallel_training.recompute.${plan} PROPERTIES LABELS chapter10 TIMEOUT 60)
endforeach()
course_add_ranks(13_two_dimensional.recompute 4 $<TARGET_FILE:13_two_dimensional> --dp 2 --tp 2 --plan article --loss-parallel
  --recompute layer --steps 2 --quiet --text chapters/01_column_row_split/README.md)
set_tests_properties(13_two_dimensional.recompute PROPERTIES LABELS chapter13 TIMEOUT 60)
