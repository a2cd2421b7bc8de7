(ns magnetar.faults.disk
  "A small disk in memory, mounted in a namespace of its own: no other program sees it, and it goes with the process that holds it."
  (:require
   [clojure.java.io :as io])
  (:import
   (java.io BufferedReader)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(defn- start-process ^Process [& command]
  (.start (.redirectErrorStream (ProcessBuilder. ^List (vec command)) true)))

(defn mount
  "Mounts a disk of so many KiB at the folder. Returns {:holder its process :words the beginning of a command that sees it}, or nil if
  this user or this system may not."
  [folder kib]
  (try
    (let [script (str "mount -t tmpfs -o size=" kib "k tmpfs \"$0\" && echo mounted && exec cat")
          holder (start-process "unshare" "-rm" "sh" "-c" script (str folder))]
      (if (= "mounted" (.readLine ^BufferedReader (io/reader (.getInputStream holder))))
        {:holder holder
         :words ["nsenter" "-t" (str (.pid holder)) "-U" "-m" "--preserve-credentials"]}
        (do (.destroyForcibly holder) nil)))
    (catch java.io.IOException _ nil)))

(defn run
  "Runs a command that sees the disk; returns its exit code, nil after 20 seconds."
  [{:keys [words]} & command]
  (let [^Process process (apply start-process (concat words command))]
    (if (.waitFor process 20 TimeUnit/SECONDS)
      (.exitValue process)
      (do (.destroyForcibly process) nil))))

(defn unmount
  "Ends the disk."
  [{:keys [^Process holder]}]
  (.destroyForcibly holder)
  (.waitFor holder))

(defn with-folder
  "Calls f with the path of a new folder, which is deleted afterwards."
  [f]
  (let [folder (.toFile (java.nio.file.Files/createTempDirectory "faults" (make-array java.nio.file.attribute.FileAttribute 0)))]
    (try
      (f (str folder))
      (finally (run! io/delete-file (reverse (file-seq folder)))))))

(defn keeping
  "A fixture: the path of a new folder is in the atom while the tests run."
  [holder]
  (fn [tests]
    (with-folder (fn [folder]
                   (reset! holder folder)
                   (tests)))))

(def possible?
  "May this user mount a disk for itself?"
  (delay (with-folder (fn [folder]
                        (if-some [disk (mount folder 64)]
                          (do (unmount disk) true)
                          false)))))
