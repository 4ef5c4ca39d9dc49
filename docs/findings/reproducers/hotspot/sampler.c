/* A JVMTI agent that counts sampled allocations, and the natives of Sampler.java. */
#include <jvmti.h>
#include <stdlib.h>

static jvmtiEnv *jvmti;
static __thread jlong samples;
static jlong samples_of_all;
static jclass called;
static jmethodID method;

static void check(jvmtiError error) {
    if (error != JVMTI_ERROR_NONE) abort();
}

static void JNICALL sampled(jvmtiEnv *env, JNIEnv *jni, jthread thread, jobject object, jclass klass,
                            jlong size) {
    samples++;
    __atomic_add_fetch(&samples_of_all, 1, __ATOMIC_RELAXED);
    if (called) (*jni)->CallStaticVoidMethod(jni, called, method, object);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
    jvmtiCapabilities capabilities = {.can_generate_sampled_object_alloc_events = 1};
    jvmtiEventCallbacks callbacks = {.SampledObjectAlloc = sampled};
    if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) return JNI_ERR;
    check((*jvmti)->AddCapabilities(jvmti, &capabilities));
    check((*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks));
    return JNI_OK;
}

JNIEXPORT void JNICALL Java_Sampler_interval(JNIEnv *jni, jclass klass, jint bytes) {
    check((*jvmti)->SetHeapSamplingInterval(jvmti, bytes));
}

JNIEXPORT void JNICALL Java_Sampler_call(JNIEnv *jni, jclass klass, jclass target) {
    if (target == NULL) {
        called = NULL;
        return;
    }
    method = (*jni)->GetStaticMethodID(jni, target, "sampled", "(Ljava/lang/Object;)V");
    called = (*jni)->NewGlobalRef(jni, target);
}

static void set(jvmtiEventMode mode) {
    check((*jvmti)->SetEventNotificationMode(jvmti, mode, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, NULL));
}

JNIEXPORT void JNICALL Java_Sampler_enable(JNIEnv *jni, jclass klass) { set(JVMTI_ENABLE); }

JNIEXPORT void JNICALL Java_Sampler_disable(JNIEnv *jni, jclass klass) { set(JVMTI_DISABLE); }

JNIEXPORT jlong JNICALL Java_Sampler_samples(JNIEnv *jni, jclass klass) {
    return samples;
}

JNIEXPORT jlong JNICALL Java_Sampler_samplesOfAll(JNIEnv *jni, jclass klass) {
    return __atomic_load_n(&samples_of_all, __ATOMIC_RELAXED);
}
