(ns magnetar.dev.runtime-test
  "What a Java that is too old, or a checkout without compiled kernel, is told."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.impl.runtime :as runtime]))

(defn- message [java]
  (:message (runtime/complaint java)))

(deftest an-old-java-is-named-with-its-place
  (is (= (str "Magnetar needs JDK 25 or newer; this is 17.0.15 at /opt/jdk. "
              "Point JAVA_HOME, or the `java` on the PATH, at a JDK 25.")
         (message {:specification "17", :version "17.0.15", :home "/opt/jdk", :kernel? true})))
  (is (= (str "Magnetar needs JDK 25 or newer; this is 1.8.0_292 at /opt/jre. "
              "Point JAVA_HOME, or the `java` on the PATH, at a JDK 25.")
         (message {:specification "1.8", :version "1.8.0_292", :home "/opt/jre", :kernel? true}))))

(deftest a-missing-kernel-says-how-to-compile-it
  (is (= (str "Magnetar: the kernel is not compiled: run `bin/magnetar classpath` (in a checkout) or "
              "`clojure -X:deps prep` (as a git dependency).")
         (message {:specification "25", :kernel? false}))))

(deftest the-error-carries-data
  (is (= {:magnetar/reason :magnetar/java-too-old, :needed 25, :version "24", :home "/j"}
         (:data (runtime/complaint {:specification "24", :version "24", :home "/j", :kernel? true}))))
  (is (= :magnetar/kernel-not-compiled
         (:magnetar/reason (:data (runtime/complaint {:specification "26", :kernel? false}))))))

(deftest a-new-java-with-a-kernel-is-welcome
  (is (nil? (runtime/complaint {:specification "25", :kernel? true})))
  (is (nil? (runtime/complaint (runtime/this-java)))))
