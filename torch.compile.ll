declare <8 x double> @llvm.masked.load.v8f64.p0(ptr, <8 x i1>, <8 x double>)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.masked.store.v8f64.p0(<8 x double>, ptr, <8 x i1>)
define void @kernel.0(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end) {
entry:
 %v1 = getelementptr ptr, ptr %buffers, i64 0
 %v2 = load ptr, ptr %v1, align 8
 %v3 = getelementptr ptr, ptr %buffers, i64 1
 %v4 = load ptr, ptr %v3, align 8
 %v5 = icmp slt i64 %begin, %end
 br i1 %v5, label %then6, label %after7
then6:
 br label %loop8
loop8:
 %i10 = phi i64 [ %begin, %then6 ], [ %n11, %loop8 ]
 %v13 = urem i64 %i10, 1
 %v14 = udiv i64 %i10, 1
 %v15 = mul i64 %v13, 8
 %v16 = icmp sge i64 %v14, 1
 %v17 = mul i64 %v14, -1
 %v18 = icmp sge i64 %v17, -4
 %v19 = and i1 %v16, %v18
 %v20 = mul i64 %v15, -1
 %v21 = add i64 %v20, 2
 %v22 = sub i64 0, %v21
 %v23 = call i64 @llvm.smin.i64(i64 %v22, i64 1073741824)
 %v24 = call i64 @llvm.smax.i64(i64 %v23, i64 -1073741824)
 %v25 = trunc i64 %v24 to i32
 %v26 = insertelement <8 x i32> poison, i32 %v25, i64 0
 %v27 = shufflevector <8 x i32> %v26, <8 x i32> poison, <8 x i32> zeroinitializer
 %v28 = icmp sge <8 x i32> <i32 0, i32 -1, i32 -2, i32 -3, i32 -4, i32 -5, i32 -6, i32 -7>, %v27
 %v29 = insertelement <8 x i1> poison, i1 %v19, i64 0
 %v30 = shufflevector <8 x i1> %v29, <8 x i1> poison, <8 x i32> zeroinitializer
 %v31 = and <8 x i1> %v30, %v28
 %v32 = mul i64 %v14, 24
 %v33 = getelementptr i8, ptr %v2, i64 %v32
 %v34 = mul i64 %v15, 8
 %v35 = getelementptr i8, ptr %v33, i64 %v34
 %v36 = getelementptr i8, ptr %v35, i64 -24
 %v37 = and <8 x i1> %v31, <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0>
 %v38 = call <8 x double> @llvm.masked.load.v8f64.p0(ptr align 8 %v36, <8 x i1> %v37, <8 x double> poison)
 %v39 = select <8 x i1> %v37, <8 x double> %v38, <8 x double> splat (double 0x0000000000000000)
 %v40 = mul i64 %v14, 32
 %v41 = getelementptr i8, ptr %v4, i64 %v40
 %v42 = getelementptr i8, ptr %v41, i64 %v34
 call void @llvm.masked.store.v8f64.p0(<8 x double> %v39, ptr align 8 %v42, <8 x i1> <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0>)
 %n11 = add nuw nsw i64 %i10, 1
 %c12 = icmp slt i64 %n11, %end
 br i1 %c12, label %loop8, label %done9
done9:
 br label %after7
after7:
 ret void
}
